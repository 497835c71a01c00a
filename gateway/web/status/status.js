// Fills the status page from /status. All text is set as text: nothing that a client named is markup.
"use strict";

const PERIOD_MS = 2000;
const KEPT = 60; // points of the chart: two minutes

const $ = (id) => document.getElementById(id);
const history = [];
let before = null;

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit++; }
  return `${unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function list(target, pairs) {
  target.replaceChildren(...pairs.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
}

function rows(target, items, columns, empty) {
  if (!items.length) {
    const cell = element("td", empty, "none");
    cell.colSpan = columns.length;
    const row = element("tr");
    row.append(cell);
    target.replaceChildren(row);
    return;
  }
  target.replaceChildren(...items.map((item) => {
    const row = element("tr", undefined, item.level);
    row.append(...columns.map(([read, className]) => element("td", read(item), className)));
    return row;
  }));
}

function showRates(now) {
  const seconds = before ? now.now_s - before.now_s : 0;
  const rate = (value, last) => (seconds > 0 ? Math.max(0, (value - last) / seconds) : 0);
  const moved = Object.entries(now.moved_bytes).map(([way, bytes]) =>
    [way, rate(bytes, before ? before.moved_bytes[way] || 0 : bytes)]);
  const requests = rate(now.http.requests, before ? before.http.requests : 0);
  list($("rates"), [
    ["requests", `${requests.toFixed(1)}/s`],
    ["running", now.http.running],
    ["HTTP connections", now.http.connections],
    ["requests since the start", now.http.requests],
    ["of them ended with 5xx", now.http.server_errors],
    ...moved.map(([way, bytes]) => [`bytes, ${way}`, `${size(bytes)}/s`]),
  ]);
  if (seconds > 0) history.push(moved.reduce((sum, [, bytes]) => sum + bytes, 0));
  if (history.length > KEPT) history.shift();
  const top = Math.max(...history, 1);
  const points = history.map((value, at) => `${(at * 300) / (KEPT - 1)},${58 - (value / top) * 56}`);
  document.querySelector("#chart polyline").setAttribute("points", points.join(" "));
  $("chart-scale").textContent = history.length ? `at most ${size(top)}/s in two minutes` : "";
}

function showFabric(fabric) {
  if (!fabric.kind) {
    list($("fabric"), [["RDMA", fabric.because]]);
    return;
  }
  list($("fabric"), [
    ["port", `${fabric.device} ${fabric.port}`],
    ["state", fabric.up ? "active" : "down"],
    ["GID", fabric.gid],
    ["GID index", fabric.gid_index],
    ["LID", fabric.lid],
    ["link layer", fabric.link_layer],
    ["MTU", fabric.mtu_bytes],
    ["chosen because", fabric.because],
  ]);
}

function gauge(name, used, total, text) {
  const label = element("label", name);
  const output = element("output", text);
  const meter = element("meter");
  meter.max = total || 1;
  meter.value = used;
  label.append(output, meter);
  return label;
}

function showStaging(staging) {
  if (!staging) {
    $("staging").replaceChildren(element("p", "none: RDMA is off"));
    return;
  }
  const pairs = [["lanes of sessions", staging.lanes], ["queue pairs of connections", staging.connections]];
  const gauges = pairs.map(([name, one]) => {
    const total = one.free + one.leased + one.resting;
    return gauge(name, one.leased + one.resting, total, `${one.leased} lent, ${one.resting} resting, of ${total}`);
  });
  const waiting = Object.values(staging.slot_waiters).reduce((sum, count) => sum + count, 0);
  gauges.push(gauge("slots of connections", staging.slots_in_use, staging.slots_total,
    `${staging.slots_in_use} of ${staging.slots_total}, ${size(staging.slot_bytes)} each, ${waiting} wait`));
  $("staging").replaceChildren(...gauges);
}

function show(now) {
  $("version").textContent = now.version;
  $("process").textContent =
    `worker ${now.worker}, process ${now.pid}, up for ${duration(now.now_s - now.started_s)}`;
  showRates(now);
  showFabric(now.fabric);
  showStaging(now.fabric.staging);
  $("live-count").textContent = now.live.length || "";
  rows($("live"), now.live, [
    [(one) => one.id], [(one) => one.kind], [(one) => one.owner || "none yet"], [(one) => one.state],
    [(one) => one.what || (one.running ? `${one.running} running` : "")],
    [(one) => (one.size_bytes ? size(one.size_bytes) : "")],
    [(one) => (one.idle_s ? duration(one.idle_s) : "")],
  ], "none now");
  rows($("errors"), now.errors, [
    [(one) => new Date(one.time_s * 1000).toISOString().replace("T", " ").slice(0, 19)],
    [(one) => one.level], [(one) => one.logger.replace("gateway.", "")],
    [(one) => one.request_id], [(one) => one.session], [(one) => one.message, "message"],
  ], "none since the start");
  before = now;
}

async function refresh() {
  const state = $("state");
  try {
    const reply = await fetch("status");
    if (!reply.ok) throw new Error(`status ${reply.status}`);
    show(await reply.json());
    state.textContent = "live";
    state.className = "good";
  } catch (error) {
    state.textContent = `no answer: ${error.message}`;
    state.className = "bad";
  }
}

refresh();
setInterval(() => { if (!document.hidden) refresh(); }, PERIOD_MS);
