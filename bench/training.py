# SPDX-License-Identifier: Apache-2.0
"""Training on this CPU: coda with fused and unfused plans beside the same model in PyTorch.

    python3 bench/training.py CODA TEXT [--rounds 5] [--steps 8] [--threads 2]

CODA is the command line, TEXT a text file; PyTorch takes part where torch and transformers can be imported. The
model is the small LLaMA of `coda train` (or of the sizes given), its data bytes. Each round runs all contenders in turn,
each for some steps, of which the first three are not counted; a contender's time is the median over all
steps of all rounds. coda keeps float32 masters and moments whatever the type; PyTorch is timed with float32
parameters (in bf16: under autocast) and with everything in bf16.
"""
import argparse
import csv
import statistics
import subprocess
import tempfile
import time

try:
    import numpy
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
except ImportError:
    torch = None

WARM_UP = 3


def torch_steps(args, text, parameters, autocast):
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=256, hidden_size=args.hidden, intermediate_size=args.ffn, num_hidden_layers=args.layers,
        num_attention_heads=args.heads, num_key_value_heads=args.heads, max_position_embeddings=2048,
        rms_norm_eps=1e-5, tie_word_embeddings=False, use_cache=False)
    model = LlamaForCausalLM(config).to(parameters)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    random = numpy.random.default_rng(1)
    times = []
    for _ in range(WARM_UP + args.steps):
        begin = time.perf_counter()
        starts = random.integers(0, len(text) - args.length, args.batch)
        ids = torch.stack([text[s:s + args.length] for s in starts])
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        times.append(time.perf_counter() - begin)
    return times[WARM_UP:]


def coda_steps(args, dtype, *more):
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [args.coda, "train", args.text, "--out", out, "--steps", str(WARM_UP + args.steps),
             "--batch", str(args.batch), "--length", str(args.length), "--hidden", str(args.hidden),
             "--ffn", str(args.ffn), "--layers", str(args.layers), "--heads", str(args.heads),
             "--threads", str(args.threads), "--type", dtype, "--evaluate", "0", "--quiet", *more],
            check=True, stdout=subprocess.DEVNULL)
        with open(out + "/metrics.csv") as file:
            rates = [float(row["tokens_per_second"]) for row in csv.DictReader(file)]
        return [args.batch * args.length / rate for rate in rates[WARM_UP:]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("coda")
    parser.add_argument("text")
    for name, value in {"rounds": 5, "steps": 8, "threads": 2, "hidden": 192, "ffn": 512, "layers": 4,
                        "heads": 6, "batch": 8, "length": 256}.items():
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    contenders = {}
    for dtype in ("f32", "bf16"):
        contenders[f"coda {dtype}"] = lambda d=dtype: coda_steps(args, d)
        contenders[f"coda {dtype} unfused"] = lambda d=dtype: coda_steps(args, d, "--unfused")
    if torch:
        torch.set_num_threads(args.threads)
        with open(args.text, "rb") as file:
            text = torch.tensor(numpy.frombuffer(file.read(), numpy.uint8).astype(numpy.int64))
        contenders["PyTorch f32"] = lambda: torch_steps(args, text, torch.float32, False)
        contenders["PyTorch bf16 autocast"] = lambda: torch_steps(args, text, torch.float32, True)
        contenders["PyTorch bf16 throughout"] = lambda: torch_steps(args, text, torch.bfloat16, False)
    times = {name: [] for name in contenders}
    for _ in range(args.rounds):
        for name, run in contenders.items():
            times[name] += run()
    tokens = args.batch * args.length
    print(f"torch {torch.__version__ if torch else 'not found'}, {args.threads} threads, hidden {args.hidden}, ffn {args.ffn}, "
          f"{args.layers} layers, {args.batch} x {args.length} tokens, {args.rounds} rounds of {args.steps} "
          f"steps")
    print(f"{'':24} {'ms/step':>8} {'least':>8} {'tokens/s':>9}")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:24} {1e3 * median:8.1f} {1e3 * min(values):8.1f} {tokens / median:9.0f}")


if __name__ == "__main__":
    main()
