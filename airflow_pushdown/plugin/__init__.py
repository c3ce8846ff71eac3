"""What the package adds to Airflow's web pages: links of a task, and the page that shows what it pushed and read."""
