"""The parts of `benches/compare`, whose docstring tells the method."""
