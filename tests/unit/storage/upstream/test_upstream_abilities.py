"""What a service can, in words."""

from gateway.storage.upstream.abilities import DOCUMENTS, Abilities


def test_describe__each__once_and_in_words() -> None:
    found = dict(Abilities(checksums=True).describe())
    assert found["checksums"]
    assert not found["conditional writes"]
    assert found["cors of buckets"]
    assert not found["ownershipControls of buckets"]


def test_missing__of_one_that_can_all__nothing() -> None:
    everything = Abilities(
        conditional_writes=True,
        conditional_completes=True,
        conditional_deletes=True,
        checksums=True,
        documents=frozenset(DOCUMENTS),
    )
    assert everything.missing == ()
