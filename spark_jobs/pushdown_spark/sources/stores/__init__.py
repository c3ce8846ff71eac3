"""Files in local directories, S3, Azure, Google and Hadoop file systems: how they are listed and opened."""
