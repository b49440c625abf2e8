"""Guards, limits, approvals and rules: what decides whether work may go on."""
