"""Keys that are easy to get wrong, and the clients that can't express some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ODD_KEYS: Mapping[str, str] = {
    "space": "with space.txt",
    "plus": "plus+sign.txt",
    "percent": "percent%20.txt",
    "encoded_slash": "dir%2Ffile.txt",
    "unicode": "ünï/cödé ✓.txt",
    "punctuation": "tilde~(1)'!&=,;@$.txt",
    "query": "what?#*.txt",
    "double_slash": "a//b.txt",
    "leading_slash": "/lead.txt",
    "dot": "a/./b.txt",
    "dot_dot": "a/../b.txt",
    "trailing_slash": "dir/",
}


@dataclass(frozen=True, slots=True)
class Refused:
    """The client raises an error with these words and stores nothing."""

    words: str


@dataclass(frozen=True, slots=True)
class Respelled:
    """The client stores it under another key without a word."""

    key: str


# What each client does with a file at an odd key where that isn't: put it there.
UPLOAD_LIMITS: Mapping[tuple[str, str], Refused | Respelled] = {
    # Commands that copy into directories, like cp(1): a destination with a "/" at its end is one.
    ("awscli", "trailing_slash"): Respelled("dir/source"),
    ("s3cmd", "trailing_slash"): Respelled("dir/source"),
    ("s5cmd", "trailing_slash"): Respelled("dir/source"),
    ("rclone", "trailing_slash"): Refused("is a directory"),
    # rclone's paths are those of a file system; to its S3 backend "." and ".." are names to escape.
    ("rclone", "double_slash"): Respelled("a/b.txt"),
    ("rclone", "leading_slash"): Respelled("lead.txt"),
    ("rclone", "dot"): Respelled("a/\N{FULLWIDTH FULL STOP}/b.txt"),
    ("rclone", "dot_dot"): Respelled("a/\N{FULLWIDTH FULL STOP}\N{FULLWIDTH FULL STOP}/b.txt"),
    ("minio_py", "dot"): Refused("'.' or '..' path segment is not supported"),
    ("minio_py", "dot_dot"): Refused("'.' or '..' path segment is not supported"),
    ("pyarrow", "double_slash"): Refused("Empty path component"),
    ("pyarrow", "leading_slash"): Refused("Empty path component"),
    ("pyarrow", "trailing_slash"): Refused("Not a regular file"),
    # It signs the path as spelled, and its HTTP library then resolves it; S3 can but refuse.
    ("pyarrow", "dot"): Refused("SIGNATURE_DOES_NOT_MATCH"),
    ("pyarrow", "dot_dot"): Refused("SIGNATURE_DOES_NOT_MATCH"),
    ("opendal", "dot"): Refused("SignatureDoesNotMatch"),
    ("opendal", "dot_dot"): Refused("SignatureDoesNotMatch"),
    ("opendal", "double_slash"): Respelled("a/b.txt"),
    ("opendal", "leading_slash"): Respelled("lead.txt"),
    ("opendal", "trailing_slash"): Refused("write path is a directory"),
    ("obstore", "double_slash"): Refused("contained empty path segment"),
    ("obstore", "leading_slash"): Respelled("lead.txt"),
    ("obstore", "trailing_slash"): Respelled("dir"),
    ("obstore", "dot"): Refused("illegal character sequence"),
    ("obstore", "dot_dot"): Refused("illegal character sequence"),
}

# s3torchconnector's runtime asks for the source by HEAD, with the key as its path: neither escaped
# (so some are no paths, and others name another key) nor signed as S3 escapes it.
_NO_PATH = Refused("Path is invalid")
_OTHER_KEY = Refused("The object was not found")
_OTHER_SIGNATURE = Refused("Forbidden")

# What each client does that can put an object at an odd key, but can't copy it.
COPY_LIMITS: Mapping[tuple[str, str], Refused] = {
    ("s3fs", "trailing_slash"): Refused("The specified key does not exist"),  # of "dir"
    ("s3torchconnector", "space"): _NO_PATH,
    ("s3torchconnector", "unicode"): _NO_PATH,
    ("s3torchconnector", "percent"): _OTHER_KEY,
    ("s3torchconnector", "query"): _OTHER_KEY,
    ("s3torchconnector", "plus"): _OTHER_SIGNATURE,
    ("s3torchconnector", "encoded_slash"): _OTHER_SIGNATURE,
    ("s3torchconnector", "punctuation"): _OTHER_SIGNATURE,
}
