"""Statistics of the relations of a query: sampling, collection, and estimates of join sizes."""
