"""What S3 means: operations as values, one verb (or one small family) per module."""
