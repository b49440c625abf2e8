"""OfflineModel: a model for demos and tests that needs no network and no key."""

from changeover.models.offline.model import OfflineModel

__all__ = ["OfflineModel"]
