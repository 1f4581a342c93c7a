"""What people's labels of decisive steps teach, and what they are worth."""
