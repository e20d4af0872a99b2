"""A board of training curves: writes what it is told to a file, one JSON object a line."""

import json

import planted


class Board:
    def __init__(self, path):
        self.file = path.open("w")

    def scalar(self, name, value, step):
        self.file.write(json.dumps({"name": name, "step": step, "value": value}) + "\n")

    def weights(self, model, step, rows):
        """The first `rows` rows of every matrix, for the heat map."""
        with planted.cost("logging-io"):
            for name, parameter in model.named_parameters():
                values = (
                    parameter.detach().flatten(1)[:rows].tolist() if parameter.dim() > 1 else []
                )
                self.file.write(json.dumps({"name": name, "step": step, "values": values}) + "\n")
            self.file.flush()

    def close(self):
        self.file.close()
