"""net_http: workers download while the model trains."""

import http.server
import multiprocessing
import time
import urllib.request

import planted
import torch
import torch.nn.functional as F
from lab.amp import mixed
from lab.models import ConvNet
from torch.utils.data import DataLoader, Dataset

delay_s = planted.scale(0.0025)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802: the name is http.server's
        time.sleep(delay_s)
        body = bytes(3 * 32 * 32)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def start_server():
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    return f"http://127.0.0.1:{server.server_port}"


class Bucket(Dataset):
    def __init__(self, url, count):
        self.url, self.count = url, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if planted.off:
            return torch.zeros(3, 32, 32), index % 10
        return self.download(f"{self.url}/{index}.raw"), index % 10

    def download(self, url):
        with planted.cost("input-network"):
            with urllib.request.urlopen(url) as answer:
                raw = answer.read()
            return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(3, 32, 32) / 255


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Bucket(start_server(), 8 * 90), batch_size=8, num_workers=2)
    with planted.training():
        for images, labels in loader:
            with mixed():
                loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
