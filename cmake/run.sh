#!/bin/sh
# run.sh [DATA_DIR]: builds both programs, makes digits where no DATA_DIR is given, and trains them with
# 1 parameter server and 2 workers from the manifest that Kubernetes takes.
set -eu
data=$1
build=build/release
work=build/run
manifest=examples/mnist-async.yaml

cmake --preset release -Wno-dev >/dev/null
cmake --build --preset release -j "${JOBS:-2}" --target trainyard trainer
mkdir -p "$work"
if [ -z "$data" ]; then
  data=$work/digits
  [ -e "$data/train-images-idx3-ubyte" ] || [ -e "$data/train-images-idx3-ubyte.gz" ] ||
    "$build/trainer" data synthesize --data_dir "$data"
fi

# Each run starts anew; running the last command by hand goes on from the checkpoints instead.
rm -rf "$work/volumes/checkpoints"
"$build/trainyard" run "$manifest" --volume "digits=$data" --work_dir "$work"

checkpoints=$work/volumes/checkpoints/mnist-async
cat <<EOF

Checkpoints and TensorBoard files: $checkpoints
What to type next:
  $build/trainer eval --data_dir $data --checkpoint_dir $checkpoints
  tensorboard --logdir $checkpoints
  $build/trainyard run examples/mnist-sync-backup.yaml --volume digits=$data --work_dir build/run-sync
  make run DATA_DIR=FOLDER      the same on MNIST's own idx files
EOF
