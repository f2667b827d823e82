# Removes what tests left behind whose process was killed: whatever has wsl-PID-START- in its name, or as WHYSLOW_TEST in its
# environment, where PID has ended, or began at another time than START (field 22 of /proc/PID/stat). With an argument, a name of
# the process that runs it, it first waits for the end of that process, which closes its standard input.

PATH=$PATH:/usr/sbin:/sbin

# is_left NAME: whether the process that made this has ended.
is_left() {
  rest=$1
  while :; do
    case $rest in
      *wsl-*) rest=${rest#*wsl-} ;;
      *) return 1 ;;
    esac
    case $rest in [0-9]*-[0-9]*-*) ;; *) continue ;; esac
    pid=${rest%%-*}
    start=${rest#*-}
    start=${start%%-*}
    case $pid$start in *[!0-9]*) ;; *) break ;; esac
  done
  read -r stat 2>/dev/null <"/proc/$pid/stat" || return 0
  # What follows the name, which may hold anything: the state is the first field.
  set -- ${stat##*) }
  case $1 in Z | X) return 0 ;; esac
  shift 19
  [ "$1" != "$start" ]
}

# Kills the processes that standard input lists; 0 is one that cannot be seen from here, and would be kill(1)'s own group.
kill_all() {
  grep -vx 0 | xargs -r kill -KILL
}

remove_processes() {
  for file in $(grep -l -s -a 'WHYSLOW_TEST=wsl-' /proc/[0-9]*/environ); do
    is_left "$(tr '\0' '\n' <"$file" | grep '^WHYSLOW_TEST=')" || continue
    left=1
    process=${file#/proc/}
    kill -KILL "${process%/environ}"
  done
}

remove_cgroups() {
  while read -r _ hierarchy kind _; do
    case $kind in cgroup | cgroup2) ;; *) continue ;; esac
    for group in "$hierarchy"/wsl-*; do
      [ -d "$group" ] && is_left "$group" || continue
      left=1
      kill_all <"$group/cgroup.procs"
      rmdir "$group"
    done
  done </proc/self/mounts
}

remove_network_namespaces() {
  for namespace in /run/netns/wsl-*; do
    [ -e "$namespace" ] && is_left "$namespace" || continue
    left=1
    ip netns pids "${namespace##*/}" | kill_all
    ip netns del "${namespace##*/}"
  done
}

remove_volumes() {
  for file in /sys/block/dm-*/dm/name; do
    [ -e "$file" ] && read -r name <"$file" && is_left "$name" || continue
    left=1
    dmsetup remove --retry "$name"
  done
}

remove_mounts() {
  tac /proc/self/mounts | while read -r _ point _; do
    is_left "$point" || continue
    # A frozen file system outlives its mount.
    fsfreeze --unfreeze "$point"
    umount "$point" || umount --lazy "$point"
  done
  while read -r _ point _; do
    is_left "$point" && left=1
  done </proc/self/mounts
}

# A loop device over a file with such a name, or over another loop device that is.
remove_loop_devices() {
  for file in /sys/block/loop*/loop/backing_file; do
    [ -e "$file" ] && read -r backing <"$file" || continue
    case $backing in
      /dev/loop*) read -r backing <"/sys/block/${backing#/dev/}/loop/backing_file" || continue ;;
    esac
    is_left "$backing" || continue
    left=1
    device=${file#/sys/block/}
    device=/dev/${device%%/*}
    swapoff "$device"
    delpart "$device" 1
    delpart "$device" 2
    losetup --detach "$device"
  done
}

# Settings are restored from the file that whoever changes one writes before; everybody may write to these folders, so only what
# is this user's own is believed.
remove_files() {
  for folder in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do
    for file in "$folder"/wsl-*; do
      [ -O "$file" ] && [ ! -L "$file" ] && is_left "$file" || continue
      case $file in
        *-setting) [ -f "$file" ] && read -r path value <"$file" && echo "$value" >"$path" ;;
      esac
      rm -rf --one-file-system "$file" || left=1
    done
  done
}

sweep() {
  left=
  remove_processes
  remove_cgroups
  remove_network_namespaces
  remove_volumes
  remove_mounts
  remove_loop_devices
  remove_files
}

exec 2>/dev/null
if [ $# -gt 0 ]; then
  cat >/dev/null
  until is_left "$1"; do sleep 0.05; done
fi
# A killed process leaves its cgroup, and a device that was open its file, only a moment later.
for pass in 1 2 3 4 5 6 7 8 9 10; do
  sweep
  [ -n "$left" ] || break
  sleep 0.1
done
