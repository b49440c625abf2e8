"""Texts that would break a page which does not show them as text."""

NAME = '<img src=x onerror="window.broken=1">'
HOSTILE = "\n\n".join(
    (
        '<script>window.broken=1</script> <img src=x onerror="window.broken=1"> <svg onload="window.broken=1">',
        "[a](javascript:window.broken=1) [b](data:text/html,<script>window.broken=1</script>) [c](vbscript:x)",
        "[d](//example.org/x) ![e](https://example.org/e.png) <https://example.org> <a href=javascript:x>f</a>",
        "\u202eright to left\u202c, \u200b\u200bzero\u200dwidth\ufeff, \u0645\u0631\u062d\u0628\u0627",
        "`" * 40 + "**" * 40 + "[" * 40 + "](" * 40 + "|" * 40,
        "x" * 100_000,
    )
)
