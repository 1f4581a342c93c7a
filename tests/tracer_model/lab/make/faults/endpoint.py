"""An OpenAI-compatible endpoint in a process of its own that answers by script: `python endpoint.py PLAN`.

PLAN is JSON: a list of answers, each a number (an HTTP status), "slow", "drip", a text that is the message's
content, or an object that is the message. The last one is given again and again. The port is printed; what was
asked goes to stderr, one line each.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

answers: list[Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else [""]


class Scripted(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        asked = [self.path, self.headers.get("authorization"), json.loads(body)]
        sys.stderr.write(json.dumps(asked) + "\n")
        sys.stderr.flush()
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, int):
            self.send_response(answer)
            self.send_header("retry-after", "0")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        if answer == "slow":
            time.sleep(1.5)
        message = answer if isinstance(answer, dict) else {"role": "assistant", "content": answer}
        said = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        for byte in said:
            self.wfile.write(bytes([byte]))
            if answer == "drip":
                self.wfile.flush()
                time.sleep(0.1)

    def log_message(self, *_: object) -> None:
        return


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
