"""Personal data in texts: e-mail and IP addresses, telephone, card and account numbers, secrets."""
