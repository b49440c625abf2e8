"""Who is in a team, and which ways lead from one member to another. Frozen data: a run never changes it."""
