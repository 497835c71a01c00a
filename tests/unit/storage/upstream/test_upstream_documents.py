"""The owner of a bucket among its tags."""

from xml.etree import ElementTree

from gateway.storage.upstream.documents import join_owner, split_owner

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
TAGS = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"


def tags(text: str) -> list[tuple[str | None, str | None]]:
    root = ElementTree.fromstring(text)
    found = root.iter(f"{NAMESPACE}Tag")
    return [(t.findtext(f"{NAMESPACE}Key"), t.findtext(f"{NAMESPACE}Value")) for t in found]


def test_owner__joined_and_split__document_as_before() -> None:
    joined = join_owner("o" * 64, TAGS)
    assert tags(joined) == [("a", "b"), ("s3rdma-owner", "o" * 64)]
    owner, rest = split_owner(joined)
    assert owner == "o" * 64
    assert tags(rest) == [("a", "b")]


def test_owner__claimed_by_the_client__not_believed() -> None:
    claimed = join_owner("somebody", TAGS)
    assert split_owner(join_owner("", claimed)) == ("", split_owner(claimed)[1])


def test_owner__alone_or_none__no_document_is_shown() -> None:
    assert split_owner(join_owner("o", "")) == ("o", "")
    assert join_owner("", "") == ""
    assert split_owner("") == ("", "")
