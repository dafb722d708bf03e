"""The one place that holds the version of tensortui."""

VERSION = "0.1.0"
