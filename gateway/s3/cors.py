"""Cross-origin requests: a bucket's rules, preflight, and the headers of every other reply.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/cors.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from xml.etree.ElementTree import Element

from gateway.errors import ClientError, GatewayError, S3Code
from gateway.s3.documents import leaf, stored_document
from gateway.s3.results import Reply
from gateway.storage.port import BucketInfo, Storage
from gateway.wire.request import RequestHead
from gateway.wire.xml import Children, document, element, malformed

SETTING = "cors"
ROOT = "CORSConfiguration"
PREFLIGHT_METHOD = "OPTIONS"

_MAX_RULES = 100
_MAX_ID_CHARS = 255
_METHODS = frozenset({"GET", "PUT", "HEAD", "POST", "DELETE"})
_SECONDS = re.compile(r"[0-9]{1,9}")
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.1, and the wildcard
_ORIGIN = re.compile(r"[!-~]+")  # visible ASCII: it goes back as a header's value
_VARY = ("vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method")

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CorsRule:
    """One CORSRule, word for word. Origins and headers may hold one wildcard each."""

    origins: tuple[str, ...]
    methods: tuple[str, ...]
    headers: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    max_age_s: int | None = None
    rule_id: str | None = None

    def matching_origin(self, origin: str) -> str | None:
        """The first of `origins` that an origin matches, or None."""
        return next((one for one in self.origins if _matches(one, origin)), None)

    def allows_headers(self, names: tuple[str, ...]) -> bool:
        """Whether each of these lower-case names matches one of `headers`, whatever its case."""
        return all(any(_matches(one.lower(), name) for one in self.headers) for name in names)


@dataclass(frozen=True, slots=True)
class CrossOrigin:
    """What a browser says of the page that asks.

    Attributes:
        origin: of the page.
        method: of the request that this is, or that a preflight announces.
        headers: lower-case names that a preflight announces.
    """

    origin: str
    method: str
    headers: tuple[str, ...] = ()

    @classmethod
    def of(cls, head: RequestHead) -> CrossOrigin | None:
        """None for a request without Origin, which comes from no other page."""
        origin = head.get("origin")
        if origin is None:
            return None
        announced = (head.get("access-control-request-headers") or "").lower().split(",")
        return cls(
            origin=origin,
            method=head.get("access-control-request-method") or head.method,
            headers=tuple(name.strip() for name in announced if name.strip()),
        )


def cors_rules(bucket: BucketInfo) -> tuple[CorsRule, ...]:
    """A bucket's rules, in order; () where it has none."""
    return _parsed(bucket.settings.get(SETTING, ""))


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[CorsRule, ...]:
    root = stored_document(text)
    return () if root is None else _read_rules(root)


def read_cors(root: Element) -> Element:
    """The document to store for one that was sent.

    Raises:
        ClientError: MalformedXML; InvalidRequest for what a rule may not say.
    """
    return document(ROOT, *map(_rule_element, _read_rules(root)))


def _read_rules(root: Element) -> tuple[CorsRule, ...]:
    rules = Children(root, several=("CORSRule",)).each("CORSRule")
    if not rules:
        raise malformed("A CORSConfiguration needs a CORSRule.")
    if len(rules) > _MAX_RULES:
        raise _refused(
            f"The number of CORS rules should not exceed allowed limit of {_MAX_RULES} rules."
        )
    return tuple(_read_rule(rule) for rule in rules)


def _read_rule(node: Element) -> CorsRule:
    given = Children(
        node,
        once=("ID", "MaxAgeSeconds"),
        several=("AllowedHeader", "AllowedMethod", "AllowedOrigin", "ExposeHeader"),
    )
    origins, methods = given.texts("AllowedOrigin"), given.texts("AllowedMethod")
    headers, exposed = given.texts("AllowedHeader"), given.texts("ExposeHeader")
    rule_id, max_age = given.text("ID"), given.text("MaxAgeSeconds")
    if not origins or not methods:
        raise malformed("A CORSRule needs an AllowedOrigin and an AllowedMethod.")
    if max_age is not None and not _SECONDS.fullmatch(max_age):
        raise malformed("MaxAgeSeconds must be a number.")
    if len(rule_id or "") > _MAX_ID_CHARS:
        raise malformed(f"The ID of a CORSRule has at most {_MAX_ID_CHARS} characters.")
    _check_rule(origins, methods, headers, exposed)
    return CorsRule(
        origins=tuple(origins),
        methods=tuple(methods),
        headers=tuple(headers),
        exposed=tuple(exposed),
        max_age_s=None if max_age is None else int(max_age),
        rule_id=rule_id,
    )


def _check_rule(
    origins: list[str], methods: list[str], headers: list[str], exposed: list[str]
) -> None:
    for method in methods:
        if method not in _METHODS:
            raise _refused(
                "Found unsupported HTTP method in CORS config. "
                f"Unsupported method is {method[:_MAX_ID_CHARS]}"
            )
    for name, values, form in (
        ("AllowedOrigin", origins, _ORIGIN),
        ("AllowedHeader", headers, _FIELD_NAME),
        ("ExposeHeader", exposed, _FIELD_NAME),
    ):
        wildcards = 0 if name == "ExposeHeader" else 1
        if any(value.count("*") > wildcards for value in values):
            raise _refused(f"An {name} can not have more than {wildcards} wildcards.")
        if not all(form.fullmatch(value) for value in values):
            raise _refused(f"An {name} holds a character that it may not have.")


def _rule_element(rule: CorsRule) -> Element:
    return element(
        "CORSRule",
        *([] if rule.rule_id is None else [leaf("ID", rule.rule_id)]),
        *(leaf("AllowedHeader", name) for name in rule.headers),
        *(leaf("AllowedMethod", method) for method in rule.methods),
        *(leaf("AllowedOrigin", origin) for origin in rule.origins),
        *(leaf("ExposeHeader", name) for name in rule.exposed),
        *([] if rule.max_age_s is None else [leaf("MaxAgeSeconds", rule.max_age_s)]),
    )


def _refused(message: str) -> ClientError:
    return ClientError(S3Code.INVALID_REQUEST, message)


def _matches(pattern: str, text: str) -> bool:
    """Whether a text is the pattern, whose wildcard, if it has one, stands for any run."""
    before, wildcard, after = pattern.partition("*")
    if not wildcard:
        return pattern == text
    long_enough = len(text) >= len(before) + len(after)
    return long_enough and text.startswith(before) and text.endswith(after)


def allowance(rules: tuple[CorsRule, ...], asked: CrossOrigin) -> Headers | None:
    """The Access-Control-* headers of the first rule that lets a request in; None without one."""
    for rule in rules:
        origin = rule.matching_origin(asked.origin)
        if origin and asked.method in rule.methods and rule.allows_headers(asked.headers):
            return tuple(_allowed(rule, origin, asked))
    return None


def _allowed(rule: CorsRule, origin: str, asked: CrossOrigin) -> Iterator[tuple[str, str]]:
    anyone = origin == "*"  # then S3 lets no credentials in, and browsers want it so
    yield "access-control-allow-origin", "*" if anyone else asked.origin
    yield "access-control-allow-methods", ", ".join(rule.methods)
    if asked.headers:
        yield "access-control-allow-headers", ", ".join(asked.headers)
    if rule.exposed:
        yield "access-control-expose-headers", ", ".join(rule.exposed)
    if rule.max_age_s is not None:
        yield "access-control-max-age", str(rule.max_age_s)
    if not anyone:
        yield "access-control-allow-credentials", "true"


async def preflight(head: RequestHead, bucket: str | None, storage: Storage) -> Reply:
    """OPTIONS: whether a browser may send the request that it announces. Nobody signs it.

    Args:
        head: its Origin and Access-Control-Request-* say what is announced.
        bucket: whose rules count; None where the path names none.
        storage: of the rules.

    Raises:
        ClientError: BadRequest where the headers announce nothing; AccessForbidden where no rule
            allows it; NoSuchBucket.
    """
    asked = CrossOrigin.of(head)
    if asked is None:
        raise ClientError(
            S3Code.BAD_REQUEST, "Insufficient information. Origin request header needed."
        )
    if asked.method not in _METHODS:
        stated = head.get("access-control-request-method")
        raise ClientError(
            S3Code.BAD_REQUEST, f"Invalid Access-Control-Request-Method: {stated or 'null'}"
        )
    rules = () if bucket is None else cors_rules(await storage.head_bucket(bucket))
    allowed = allowance(rules, asked)
    if allowed is None:
        reason = (
            "This CORS request is not allowed. This is usually because the evaluation of Origin, "
            "request method / Access-Control-Request-Method or Access-Control-Request-Headers are "
            "not whitelisted by the resource's CORS spec."
            if rules
            else "CORS is not enabled for this bucket."
        )
        raise ClientError(
            S3Code.ACCESS_FORBIDDEN, f"CORSResponse: {reason}", details={"Method": asked.method}
        )
    return Reply(headers=(*allowed, _VARY))


async def cross_origin_headers(head: RequestHead, bucket: str | None, storage: Storage) -> Headers:
    """What a reply or an error carries besides, so that a page of another origin may read it.

    () for a request without Origin, for a preflight, whose reply has them, and where the bucket
    has no rules. What goes wrong on the way is no reason to fail a request that was answered.
    """
    asked = CrossOrigin.of(head)
    if asked is None or bucket is None or head.method == PREFLIGHT_METHOD:
        return ()
    try:
        rules = cors_rules(await storage.head_bucket(bucket))
    except GatewayError:
        return ()
    if not rules:
        return ()
    return (*(allowance(rules, asked) or ()), _VARY)
