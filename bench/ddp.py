"""Times training steps of PyTorch's DistributedDataParallel on Gloo: what ranks_bench is compared with.

usage: ddp.py [--ranks 2] [--threads 1] [--only gmlp-4m/b32] [--reps 9]
The models and the batch of torch_bench.py; each rank computes its part of the batch. Prints a JSON line.
"""
import argparse, json, os, time
import torch, torch.distributed as dist, torch.multiprocessing as mp
import torch_bench

def run(rank, a):
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(a.port)); torch.set_num_threads(a.threads)
    dist.init_process_group('gloo', rank=rank, world_size=a.ranks)
    name, mk, data, loss, _ = next(c for c in torch_bench.cases() if c[0] == a.only)
    torch.manual_seed(0); m = mk(); batch = [x.chunk(a.ranks)[rank] for x in data()]
    f = torch.nn.parallel.DistributedDataParallel(m, gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(m.parameters(), 1e-3, fused=True); ts = []
    for r in range(a.reps + 3):
        t = time.perf_counter(); opt.zero_grad(set_to_none=True)
        loss(f, *batch).backward(); opt.step(); ts.append(time.perf_counter() - t)
    if rank == 0:
        ts = sorted(ts[3:])
        print(json.dumps(dict(model=name, ranks=a.ranks, threads=a.threads, torch=torch.__version__, ms=round(ts[len(ts)//2]*1e3, 1), min_ms=round(ts[0]*1e3, 1))), flush=True)
    dist.destroy_process_group()

def main():
    ap = argparse.ArgumentParser(); ap.add_argument('--ranks', type=int, default=2); ap.add_argument('--threads', type=int, default=1)
    ap.add_argument('--only', default='gmlp-4m/b32'); ap.add_argument('--reps', type=int, default=9); ap.add_argument('--port', type=int, default=29511)
    a = ap.parse_args(); mp.spawn(run, (a,), a.ranks)

if __name__ == '__main__': main()
