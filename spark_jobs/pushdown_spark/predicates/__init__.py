"""What a predicate says about columns, and which bytes a line must hold for it to be true."""
