"""The search for a join order: costs, enumeration, heuristics, and the decision."""
