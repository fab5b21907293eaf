"""Supervised dictionaries: atoms that rebuild the data and predict the label."""

__all__: list[str] = []
