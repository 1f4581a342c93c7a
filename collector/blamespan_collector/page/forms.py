"""Forms that the page takes: read within limits, and only where they were read on this page.

Another site must not act in a person's name: a form is only taken with the token that stands on a page of ours, which
other origins cannot read, and a browser that says it comes from elsewhere is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

_MAX_FORM_BYTES = 16_384
_MAX_FIELDS = 20


class FormTokens:
    """Makes and checks proofs that a form was read here, by this process."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def make(self, *about: str) -> str:
        """Make the token of a form about something."""
        return hmac.new(self._secret, " ".join(about).encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def check(self, form: Mapping[str, str], *about: str) -> None:
        """Check the field `token` of a form.

        Raises:
            HTTPException: if it is not the one that was made.
        """
        if not hmac.compare_digest(self.make(*about).encode(), form.get("token", "").encode()):
            raise HTTPException(
                403,
                "The form is not one of this page, or is older than the collector. Open the page and send it again.",
            )


async def read_form(request: Request) -> dict[str, str]:
    """Read a form; of a field that comes twice the last counts.

    Raises:
        HTTPException: if it is none, too large, or comes from another site.
    """
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise HTTPException(403, "This form was sent from another site. Open the page here and send it again.")
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise HTTPException(415, "Expected a form, got something else. Open the page and send it there.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_FORM_BYTES:
            raise HTTPException(413, f"Expected a form of at most {_MAX_FORM_BYTES} bytes. Shorten the comment.")
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="replace")
    except (UnicodeDecodeError, ValueError) as error:
        raise HTTPException(400, "Expected a form as a browser sends it. Open the page and send it there.") from error
    return {name: values[-1] for name, values in fields.items()}
