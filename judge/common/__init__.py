"""Parts that all programs share and that know nothing of judging: files, text, addresses, certificates, webhooks."""
