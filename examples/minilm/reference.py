"""Makes the inputs and expected outputs of examples/minilm: needs numpy, torch and transformers.

    python3 examples/minilm/reference.py MODEL_FOLDER

MODEL_FOLDER holds config.json, tokenizer.json and model.safetensors as published for
sentence-transformers/all-MiniLM-L6-v2. Writes beside this script, for each sentence,
ids_I.npy and mask_I.npy (i32[1,T], without padding), for all of them ids.npy and mask.npy
(i32[3,T], padded), and embedding*.npy (f32), computed by PyTorch in double precision.
"""
import pathlib
import sys

import numpy
import torch
import transformers

SENTENCES = [
    "A graph without breaks.",
    "The quick brown fox jumps over the lazy dog while eleven kernels run on eight streams.",
    "How do I bind my own memory to an input?",
]


def encode(model, ids, mask):
    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    weight = mask.unsqueeze(-1).double()
    mean = (hidden * weight).sum(1) / weight.sum(1)
    return torch.nn.functional.normalize(mean, dim=1)


def main():
    here = pathlib.Path(__file__).parent
    tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
    model = transformers.BertModel.from_pretrained(sys.argv[1]).double().eval()

    def write(suffix, batch):
        with torch.no_grad():
            out = encode(model, batch["input_ids"], batch["attention_mask"])
        numpy.save(here / f"ids{suffix}.npy", batch["input_ids"].numpy().astype(numpy.int32))
        numpy.save(here / f"mask{suffix}.npy", batch["attention_mask"].numpy().astype(numpy.int32))
        numpy.save(here / f"embedding{suffix}.npy", out.numpy().astype(numpy.float32))
        print(f"ids{suffix}: {tuple(batch['input_ids'].shape)}")

    write("", tokenizer(SENTENCES, padding=True, return_tensors="pt"))
    for i, sentence in enumerate(SENTENCES):
        write(f"_{i}", tokenizer([sentence], return_tensors="pt"))


main()
