"""transformers.Trainer on a tiny BERT and random tokens; the dataset waits a little."""

import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

WAIT_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0


class Tokens(Dataset):
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        time.sleep(WAIT_S)
        made = torch.Generator().manual_seed(index)
        return {
            "input_ids": torch.randint(0, 100, (16,), generator=made),
            "labels": torch.tensor(index % 2),
        }


torch.manual_seed(0)
config = BertConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=32,
)
arguments = TrainingArguments(
    output_dir=sys.argv[2],
    max_steps=20,
    per_device_train_batch_size=8,
    gradient_accumulation_steps=2,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
    logging_strategy="no",
    use_cpu=True,
    seed=0,
)
done = Trainer(BertForSequenceClassification(config), arguments, train_dataset=Tokens()).train()
print("loss", done.training_loss)
