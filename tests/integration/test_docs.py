"""The documentation: it builds, its links lead somewhere, and its reference leaves nothing out.

What must be there is found by other means than those that made the pages: in the sources as text,
in what the command line prints, and in what a gateway exposes.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_blocks import blocks

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "THREAT_MODEL.md"]


class Page(HTMLParser):
    """What a page links to, what it loads, and where in it one can land."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: text or "" for name, text in attrs}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag == "link" and values.get("rel") != "canonical" and "href" in values:
            self.loaded.add(values["href"])
        elif tag in {"script", "img", "iframe"} and "src" in values:
            self.loaded.add(values["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` builds it, where anything to warn of is an error."""
    directory = tmp_path_factory.mktemp("docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", directory],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(found) > 15
    return found


def text_of(site: Path, page: str) -> str:
    """A page as a reader sees it, without its tags."""
    text = re.sub(r"<[^>]+>", "", (site / page).read_text())
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def example_settings() -> set[str]:
    """The settings that deploy/s3rdma.toml shows, which another test holds against the code."""
    names, section = set(), ""
    for line in (ROOT / "deploy/s3rdma.toml").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            names.add(f"{section}.{line.partition(' ')[0]}")
    return names


def literals(package: Path) -> Iterator[str]:
    """Every text in a package's sources; of an f-string the pieces between its fields."""
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_links__within__lead_to_a_page_and_a_place_in_it(pages: dict[Path, Page]) -> None:
    dead = []
    for page in pages.values():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = page.path.parent / unquote(parts.path) if parts.path else page.path
            target = (target / "index.html" if target.is_dir() else target).resolve()
            if target not in pages:
                if not target.exists():
                    dead.append(f"{page.path.name}: {link}")
            elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                dead.append(f"{page.path.name}: {link}")
    assert dead == []


def test_links__of_the_pages_beside_the_code__lead_to_a_file() -> None:
    for page in ROOT.glob("*.md"):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        assert [link for link in links if not (ROOT / link).exists()] == [], page.name


def test_links__to_elsewhere__are_whole_addresses(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        for parts in map(urlsplit, page.links):
            if parts.scheme or parts.netloc:
                assert parts.scheme == "https", (page.path.name, parts.geturl())
                assert "." in (parts.hostname or ""), (page.path.name, parts.geturl())


def test_pages__loaded__need_no_other_host(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        assert not [one for one in page.loaded if urlsplit(one).netloc], page.path.name


def test_settings__each_of_the_example_file__is_there(site: Path) -> None:
    text = text_of(site, "reference/settings.html")
    names = example_settings()
    assert len(names) > 50
    assert [name for name in names if name not in text] == []
    assert all(name in text for name in ("access_key", "secret_key", "credentials_file"))


def test_errors__each_of_the_table__is_there(site: Path) -> None:
    text = text_of(site, "reference/errors.html")
    source = (ROOT / "gateway/errors.py").read_text()
    rows = re.findall(r'= \(\s*"(\w+)",\s*(\d{3}),', source)
    assert len(rows) > 60
    assert [row for row in rows if not re.search(rf"\b{row[0]}\n{row[1]}\n", text)] == []


def test_headers__each_of_the_sources__is_there(site: Path) -> None:
    text = text_of(site, "reference/headers.html")
    names = set()
    for path in (ROOT / "gateway").rglob("*.py"):
        names |= set(re.findall(r'"(x-amz-rdma-[a-z-]+[a-z])"', path.read_text()))
    assert len(names) >= 18
    assert {name for name in names if f"{name}\n" not in text} == set()


def test_metrics__each_of_the_catalogue__is_there(site: Path) -> None:
    text = text_of(site, "reference/metrics.html")
    source = (ROOT / "gateway/telemetry/catalogue.py").read_text()
    rows = re.findall(r'= _(counter|gauge|histogram)\(\s*"(\w+)"', source)
    assert len(rows) > 30
    names = [f"s3rdma_{name}{'_total' if kind == 'counter' else ''}" for kind, name in rows]
    assert [name for name in names if f"{name}\n" not in text] == []


def test_messages__each_that_is_quoted__is_one_of_ours() -> None:
    """In troubleshooting's listings; what varies in a message is written as an ellipsis."""
    said = "\n".join(literals(ROOT / "gateway"))
    quoted = [
        part
        for block in blocks(ROOT / "docs/troubleshooting.md")
        if block.language == "text"
        for part in re.split(r"\s*…\s*|\n", block.text)
        if len(part) > 3
    ]
    assert len(quoted) > 30
    assert [part for part in quoted if part not in said] == []


def test_settings__each_that_a_page_names__is_one() -> None:
    known = example_settings()
    sections = "|".join(sorted({name.partition(".")[0] for name in known}))
    named = {
        (path.name, name)
        for path in PAGES
        for name in re.findall(rf"`((?:{sections})\.[a-z_.]+[a-z])\b", path.read_text())
    }
    assert len(named) > 30
    assert {one for one in named if one[1] not in known} == set()


def test_commands__each_that_help_lists__is_there(site: Path) -> None:
    text = text_of(site, "reference/commands.html")
    shown = subprocess.run(
        [sys.executable, "-m", "gateway", "--help"], check=True, capture_output=True, text=True
    ).stdout
    names = re.findall(r"^    ([a-z-]+)\b", shown, re.MULTILINE)
    assert {"serve", "get", "put", "doctor"} <= set(names)
    assert "s3rdma keys rotate" in text
    assert [name for name in names if f"s3rdma {name}" not in text] == []
