#!/bin/busybox sh
# PID 1 of the guest: network, RDMA devices, the host's files, then COMMAND.
#
# Port 1 tells the host "START", then one of "EXIT n", "TIMEOUT" or "DIE why"; ports 2 and 3 carry
# COMMAND's output and errors, each ended by a mark. The host ends the guest once both have closed.
export PATH=/bin
/bin/busybox mount -t proc proc /proc # every other applet is run through /proc/self/exe
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
cd /dev
ln -s /proc/self/fd fd; ln -s fd/0 stdin; ln -s fd/1 stdout; ln -s fd/2 stderr
mkdir -p pts shm /ro /ov /new
mount -t devpts devpts pts
mount -t tmpfs -o mode=1777 shm shm

while read -r module; do
	insmod "/m/$module" || echo "insmod $module failed"
done </m/order
n=0
while [ ! -c /dev/vport0p3 ] && [ $n -lt 1000 ]; do usleep 10000; n=$((n + 1)); done
exec 3>/dev/vport0p1
finish() { sync; echo "$*" >&3; sleep 9999; }

# The host's root, read-only, below a tmpfs; the shared directories are the host's own.
. /conf
P=trans=virtio,version=9p2000.L,msize=1048576,cache=loose
mount -t 9p -o ro,$P host /ro || finish DIE "cannot mount the host's root over 9p"
mount -t tmpfs -o size=80% tmpfs /ov
mkdir /ov/u /ov/w
mount -t overlay -o lowerdir=/ro,upperdir=/ov/u,workdir=/ov/w overlay /new || finish DIE "no overlay"
for d in proc sys dev; do mount -o rbind /$d /new/$d; done
n=0
while read -r d; do
	mkdir -p "/new$d"
	mount -t 9p -o $P rw$n "/new$d" || finish DIE "cannot mount $d"
	n=$((n + 1))
done </rw

# Both veth ends in one network namespace (6.1's rxe serves only the first), hence accept_local;
# each end answers ARP for its own address alone; no wait for IPv6 DAD.
for i in all default; do
	cd /proc/sys/net/ipv4/conf/$i
	echo 1 >accept_local; echo 0 >rp_filter; echo 1 >arp_ignore
	echo 0 >/proc/sys/net/ipv6/conf/$i/accept_dad
done
cd /
ip link set lo up
ip link add eth0 type veth
ip link set veth0 name eth1
for i in 0 1; do
	ip link set eth$i address 52:54:00:77:00:0$((i + 1)) mtu $MTU up &&
		ip addr add 10.77.0.$((i + 1))/24 dev eth$i || finish DIE "cannot set up eth$i"
done
for i in $DEVICES; do echo "link add rxe$i type rxe netdev eth$i"; done |
	chroot /new /usr/bin/rdma -b - || finish DIE "rdma link add failed"
hostname "$NAME"
ulimit -l unlimited

mkfifo /o /e
cat /o >/dev/vport0p2 & c1=$!
cat /e >/dev/vport0p3 & c2=$!
# reap [WHY] kills whatever has its root at /new: COMMAND and everything it started.
reap() {
	for p in /proc/[0-9]*; do
		if [ $p/root -ef /new ]; then
			[ -z "$1" ] || echo "rdma-vm: $1 ${p#/proc/}: $(tr '\0' ' ' <$p/cmdline | cut -c-200)" >&4
			kill -9 ${p#/proc/}
		fi
	done 2>/dev/null
}
echo START >&3
exec 4>/e
(sleep $LIMIT 4>&-; : >/late; reap "killed by the timeout:") 3>&- &
exec 4>&-
(exec sh /run </dev/null >/o 2>/e 3>&-)
rc=$?
reap
kill $! 2>/dev/null
wait $c1 $c2
printf "$EOS" >/dev/vport0p2
printf "$EOS" >/dev/vport0p3
[ -e /late ] && finish TIMEOUT
finish EXIT $rc
