"""Registration: this broker at its name servers, and the routes they give."""
