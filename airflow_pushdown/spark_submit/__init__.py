"""The process of spark-submit: its installation, its environment, its JVM and its output."""
