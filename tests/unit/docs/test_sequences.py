"""The documentation's diagrams, read back as XML."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from sequences import on_page_markdown, svg

SOURCE = """\
sequenceDiagram
    participant client
    participant gateway
    client->>gateway: GET /a?b=1&c<br/>and <more>
    Note over gateway: thinks
    gateway-)client: bytes
    gateway-->>client: 200
"""
SVG = "{http://www.w3.org/2000/svg}"


def drawn(source: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg(source).replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" ', 1))


def test_svg__of_a_diagram__has_each_text_and_arrow_in_order() -> None:
    picture = drawn(SOURCE)
    texts = [one.text for one in picture.iter(f"{SVG}text")]
    assert texts == ["client", "gateway", "GET /a?b=1&c", "and <more>", "thinks", "bytes", "200"]
    arrows = [one.get("class") for one in picture.iter(f"{SVG}path") if one.get("class") != "life"]
    assert arrows == ["asks", "moves", "answers"]


def test_svg__arrows__point_to_whom_the_message_is_for() -> None:
    ends = {}
    for path in drawn(SOURCE).iter(f"{SVG}path"):
        if path.get("class") != "life":
            start, _, rest = path.attrib["d"].removeprefix("M").partition(" ")
            ends[path.get("class")] = float(start) < float(rest.partition("H")[2].partition("m")[0])
    assert ends == {"asks": True, "moves": False, "answers": False}


def test_svg__everything__is_inside_the_picture() -> None:
    picture = drawn(SOURCE)
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    for one in (*picture.iter(f"{SVG}text"), *picture.iter(f"{SVG}rect")):
        assert 0 <= float(one.attrib["x"]) <= width
        assert 0 <= float(one.attrib["y"]) <= height


def test_svg__a_line_of_another_kind__is_refused() -> None:
    with pytest.raises(ValueError, match="loop forever"):
        svg(SOURCE + "    loop forever\n")


def test_page__without_a_diagram__is_left_as_it_is() -> None:
    page = "# Title\n\n```text\nsequenceDiagram\n```\n"
    assert on_page_markdown(page) == page


def test_page__with_a_diagram__has_it_where_its_source_was() -> None:
    page = on_page_markdown(f"before\n\n```mermaid\n{SOURCE}```\n\nafter\n")
    before, _, after = page.partition("<svg ")
    assert before == "before\n\n"
    assert "</svg>\n\n\nafter\n" in after
    assert "mermaid" not in page
