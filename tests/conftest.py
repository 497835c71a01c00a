"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine stalls for longer than hypothesis's deadline; pytest-timeout bounds the tests.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", _PATIENT)
settings.register_profile("long", _PATIENT, max_examples=2_000)  # make fuzz
settings.load_profile("short")
