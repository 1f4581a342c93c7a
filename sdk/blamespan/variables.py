"""Every `BLAMESPAN_*` variable that is read, so that a mistyped one is named rather than passed over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches

_PREFIX = "BLAMESPAN_"
_LIKENESS = 0.8
"""How like a known variable another must be to be taken for it mistyped: Kubernetes sets `BLAMESPAN_SERVICE_PORT` and
its like wherever a service is named blamespan, and packages may have variables of their own."""
_NAMES = """
    ALERTS_LINK ALERTS_TO CHECKS CLAIMS CONFIG DEADLINE_S DRAIN_S EVALUATIONS EXIT_S FORWARD FORWARD_CA FORWARD_CERT
    FORWARD_KEY GRPC HEADER HTTP HTTP_HOST IDLE_S INCIDENT_AFTER INCIDENT_QUIET_S INJECT JAEGER_HEADERS JAEGER_UI
    JOURNAL JOURNAL_SYNC JUDGE_ACCOUNT JUDGE_ANSWER_TOKENS JUDGE_BUDGET_MONEY JUDGE_BUDGET_MONEY_HOUR
    JUDGE_BUDGET_MONEY_RUN JUDGE_BUDGET_TOKENS JUDGE_BUDGET_TOKENS_HOUR JUDGE_BUDGET_TOKENS_RUN JUDGE_CACHE
    JUDGE_CONCURRENCY JUDGE_CONTEXT_TOKENS JUDGE_DEADLINE_S JUDGE_EMBEDDED JUDGE_KEY JUDGE_LEAST_GAIN JUDGE_MODEL
    JUDGE_TAXONOMY JUDGE_TIMEOUT_S JUDGE_URL KEEP_DELIVERED_S LANGFUSE LANGFUSE_HEADERS LANGUAGE_MODEL
    LANGUAGE_MODEL_ADAPTER LANGUAGE_MODEL_CONTEXT LEARNT LINK_CHECKPOINTS LOG_FORMAT LOG_LEVEL MANIPULATOR_KEY
    MANIPULATOR_MODEL MANIPULATOR_TIMEOUT_S MANIPULATOR_URL MASK_KEYS MASK_SECRETS MAX_AGE_S MAX_BYTES
    MAX_CONTENT_BYTES MAX_JOURNAL_BYTES MAX_REQUEST_BYTES MAX_REQUEST_SPANS MAX_SPAN_ATTRIBUTES MAX_TRACES MONITOR OUT
    PAGE PAGE_HOST PHOENIX PHOENIX_HEADERS PRICES QUIET QUIET_S SCHEMATA STORE STORE_MAX_AGE_S STORE_MAX_BYTES
    TEMPO_HEADERS TLS_CERT TLS_CLIENT_CA TLS_KEY TOKEN TOKEN_FILE TRACER TRACER_DEADLINE_S TRACER_PROCESSES
"""
VARIABLES = frozenset(f"{_PREFIX}{name}" for name in _NAMES.split())
"""Their names; a test holds them complete."""


def mistyped_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a sentence for each variable that is none of ours, but like one of them."""
    known = {name.removeprefix(_PREFIX): name for name in VARIABLES}
    return [
        f"{name} is set but unknown; did you mean {known[near[0]]}?"
        for name in sorted(environment)
        if name.startswith(_PREFIX) and name not in VARIABLES
        if (near := get_close_matches(name.removeprefix(_PREFIX), known, n=1, cutoff=_LIKENESS))
    ]
