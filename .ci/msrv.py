"""Reads `cargo metadata` and fails if a normal dependency needs a newer Rust than promised."""

import json
import sys

promised = tuple(map(int, sys.argv[1].split(".")))
meta = json.load(sys.stdin)
packages = {p["id"]: p for p in meta["packages"]}
nodes = {n["id"]: n for n in meta["resolve"]["nodes"]}
todo, seen = [meta["resolve"]["root"]], set()
while todo:
    id = todo.pop()
    if id in seen:
        continue
    seen.add(id)
    for dep in nodes[id]["deps"]:
        if any(kind["kind"] is None for kind in dep["dep_kinds"]):
            todo.append(dep["pkg"])
newer = [
    f'{p["name"]} {p["version"]} needs Rust {p["rust_version"]}'
    for p in map(packages.get, seen)
    if p["rust_version"] and tuple(map(int, p["rust_version"].split(".")))[:2] > promised[:2]
]
print(f"{len(seen)} packages in the library's tree")
sys.exit("\n".join(newer) or 0)
