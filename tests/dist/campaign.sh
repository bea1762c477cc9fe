#!/usr/bin/env bash
# Runs on 2 to 4 ranks that fail at a random time: by hand, with Open MPI. Each must end in time,
# leave no process behind, and resume on another number of ranks to the weights of an unbroken run.
#   tests/dist/campaign.sh BUILD KIND COUNT [SEED]
# KIND: kill, stop or term (that signal to a rank of ntm), full (rank 0's disk is full from some
# operation on), nan (the loss of a rank of loop_ranks in some step).
set -u
build=$(readlink -f "$1") kind=$2 count=$3
RANDOM=${4:-$$}
timeout=10 slack=15  # seconds: of ranks for each other, and of mpirun to end all of them
shim=$(find "$build/tests/faults" -name '*fault_shim.so')
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
work=$(mktemp -d)
cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT

new=("$build/apps/ntm" train --hidden 40 --slots 9 --width 4 --sequences 4800 --every 1600
  --batch 16 --blocks 4 --threads 1 --out "$work/run")
loop=("$build/tests/dist/loop_ranks" "$work/run" 1)
between() { echo $(($1 + RANDOM % ($2 - $1 + 1))); }
now() { echo $(($(date +%s%N) / 1000000)); }

# Starts ntm on $1 ranks, which write their process ids; then words that stand before it.
start() {
  local ranks=$1
  shift
  rm -rf run pid.*
  exec mpirun -n "$ranks" "$@" sh -c 'echo $$ > pid.$OMPI_COMM_WORLD_RANK; exec "$@"' sh \
    "${new[@]}" --rank-timeout $timeout > out 2>&1
}

# An unbroken run; the milliseconds that it takes on 3 ranks, and its operations on files.
began=$(now)
if [[ $kind == nan ]]; then
  "${loop[@]}" > unbroken.out || exit 1
else
  (start 3 env LD_PRELOAD="$shim" FAULT_UNDER="$work/run" FAULT_LOG="$work/log") || exit 1
  operations=$(wc -l < log)
fi
whole=$(($(now) - began))
mv run unbroken

# Begins a run on $ranks ranks, job $!, and breaks it. Says how.
break_run() {
  local at
  rank=$(between 0 $((ranks - 1)))
  case $kind in
    nan)
      how="rank $rank, step $(between 1 12)"
      rm -rf run
      mpirun -n "$ranks" "${loop[@]}" nan "$rank" "${how##* }" > out 2>&1 &
      began=$(now) ;;
    full)
      how="operation $(between 1 "$operations")"
      start "$ranks" env LD_PRELOAD="$shim" FAULT_UNDER="$work/run" FAULT_HOW=full \
        FAULT_AT="${how##* }" &
      began=$(now) ;;
    *)
      at=$(between 0 $((whole * 11 / 10)))
      how="rank $rank, $at ms"
      start "$ranks" &
      sleep "$((at / 1000)).$(printf %03d $((at % 1000)))"
      began=$(now)
      kill -"${kind^^}" "$(cat "pid.$rank")" 2> /dev/null || how+=" (not there)" ;;
  esac
}

# Resumes the run on $1 ranks, or starts it anew where nothing can be resumed, to the same weights.
resume_run() {
  if [[ $kind == nan ]]; then
    mpirun -n "$1" "${loop[@]}" > out && cmp out unbroken.out
    return
  fi
  local words=("$build/apps/ntm" train --resume run --threads 1)
  [[ -e run/config.json ]] || words=("${new[@]}")
  mpirun -n "$1" "${words[@]}" > out 2>&1 &&
    cmp run/model.safetensors unbroken/model.safetensors &&
    cmp run/best.safetensors unbroken/best.safetensors
}

good=0
for ((i = 1; i <= count; ++i)); do
  ranks=$(between 2 4) others=$ranks verdict=ok
  while ((others == ranks)); do others=$(between 1 4); done
  break_run 2> /dev/null
  most=$((timeout + slack + whole / 1000 + 1))
  if ! timeout $most tail --pid=$! -f /dev/null; then
    # Nobody but mpirun waits for a rank that is stopped when it has left MPI.
    [[ $(pgrep -f -- "$work/run") == $(printf '%d\n' $! "$(cat "pid.$rank")") ]] || verdict=LATE
    how+=" (alone)"
    kill -9 "$(cat "pid.$rank")" && sleep 1
    kill -9 $!
  fi 2> /dev/null
  wait $!
  code=$? took=$(($(now) - began))
  left=$(pgrep -f -- "$work/run") && verdict="LEFT PROCESSES" && kill -9 $left
  cp out broken.out
  resume_run "$others" || verdict="NOT RESUMED"
  echo "$kind $i: $ranks ranks, $how: code $code after $took ms; resumed on $others: $verdict"
  if [[ $verdict == ok ]]; then good=$((good + 1)); else tail -n 20 broken.out out; fi
done
echo "$kind: $good of $count as they should be"
((good == count))
