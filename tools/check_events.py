#!/usr/bin/env python3
"""Reads the event files of runs with the tensorboard package, as TensorBoard does:

    train_cifar --tensorboard --out runs/a
    pip install tensorboard
    tools/check_events.py runs/a

Fails if a tag's steps are not ascending, or if there are no scalars, images or histograms."""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def check(folder):
    events = EventAccumulator(folder, size_guidance={"scalars": 0, "images": 0, "histograms": 0})
    events.Reload()
    for kind, read in (("scalars", events.Scalars), ("images", events.Images),
                       ("histograms", events.Histograms)):
        tags = events.Tags()[kind]
        if not tags:
            sys.exit(f"{folder}: no {kind}")
        count = 0
        for tag in tags:
            steps = [e.step for e in read(tag)]
            if steps != sorted(set(steps)):
                sys.exit(f"{folder}: the steps of {tag} are not ascending: {steps}")
            count += len(steps)
        print(f"{folder}: {len(tags)} {kind}, {count} values")


for argument in sys.argv[1:] or sys.exit(__doc__):
    check(argument)
