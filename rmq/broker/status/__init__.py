"""Status: runtime info, stats, lag, samples and the HTTP server of metrics."""
