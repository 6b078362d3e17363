"""Webhooks: which acts a subscription is told of, the message, its signature, and one try to deliver it."""
