# PMI as a client speaks it, in the shell: functions that a test's script begins with.
say() { printf 'cmd=%s\n' "$*" >&"$PMI_FD"; }
hear() { read -r heard <&"$PMI_FD"; }
ask() { say "$@"; hear; }
ask2() {
    text="cmd=$1;"
    printf '%6d%s' ${#text} "$text" >&"$PMI_FD"
    length=$(head -c 6 <&"$PMI_FD")
    heard=$(head -c "$((length))" <&"$PMI_FD")
}
value() { echo "$heard" | sed 's/.*value=\([^ ;]*\).*/\1/'; }
