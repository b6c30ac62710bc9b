# A virtual machine with another kernel. KVM is not required: the results are valid, but the times are not.
# Everything lies below $vm; the builds, in $target.

# Downloads the package that the metapackage $1 depends on at present, and unpacks it to $vm/$package. It is not
# installed: nothing of this machine changes.
get_kernel() {
    package=$(apt-cache depends "$1" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [ -n "$package" ] || return 1
    [ ! -d "$vm/$package" ] || return 0
    partial=$(mktemp -d "$vm/partial.XXXXXX")
    status=0
    # As root, apt-get would download as a user that may not write there.
    (cd "$partial" && apt-get download --quiet --quiet -o APT::Sandbox::User=root "$package") &&
        dpkg --extract "$partial"/*.deb "$partial/unpacked" && mv "$partial/unpacked" "$vm/$package" || status=$?
    rm -rf "$partial"
    return $status
}

# Downloads the headers for the kernel $1, as get_kernel does.
# Debian's headers are three packages, and one Makefile names another by its installed path.
get_headers() {
    headers=linux-headers-${1#linux-image-}
    [ ! -d "$vm/$headers" ] || return 0
    packages="$headers $(apt-cache depends "$headers" | sed -n 's/^ *Depends: \(linux-\(headers\|kbuild\)-.*\)/\1/p')"
    partial=$(mktemp -d "$vm/partial.XXXXXX")
    status=0
    # The packages are separate words on purpose.
    # shellcheck disable=SC2086
    (cd "$partial" && apt-get download --quiet --quiet -o APT::Sandbox::User=root $packages &&
        for package in *.deb; do dpkg --extract "$package" unpacked || exit; done &&
        sed -i "s|/usr/src/|$vm/$headers/usr/src/|" "unpacked/usr/src/$headers/Makefile") &&
        mv "$partial/unpacked" "$vm/$headers" || status=$?
    rm -rf "$partial"
    return $status
}

# Builds npt's kernel module for the kernel $1: $built/sordino_npt.ko.
make_npt_module() {
    built=$vm/$1/npt
    rm -rf "$built"
    get_headers "$1" || return 1
    cp -r crates/machine/npt/module "$built"
    # Type information (BTF) would require another package, and is not used.
    make --silent --no-print-directory -C "$vm/$headers/usr/src/$headers" M="$built" CONFIG_DEBUG_INFO_BTF_MODULES= modules \
        >"$built/log" 2>&1 || { cat "$built/log" >&2 && return 1; }
}

# Creates $vm/root, the machine's root file system: busybox, sordino as `make install` installs it, tests/vm with the
# scenarios $1, and the storms.
make_root() {
    root=$vm/root
    rm -rf "$root"
    mkdir -p "$root/bin" "$root/usr/bin" "$root/vm/scenarios"
    cp "$(command -v busybox)" "$root/bin/busybox"
    # Commands that busybox lacks.
    for program in chrt cyclictest hackbench; do
        cp "$(command -v $program)" "$root/usr/bin"
    done
    make --silent --no-print-directory install DESTDIR="$root" PREFIX=/usr RELEASE="$target/release"
    cp tests/vm/init "$root/init"
    cp tests/vm/recording.sh "$root/vm"
    for scenario in $1; do
        cp "tests/vm/scenarios/$scenario.sh" "$root/vm/scenarios"
    done
    compile="gcc -O2 -g -pthread -I$root/usr/include -L$root/usr/lib"
    $compile -o "$root/usr/bin/storms" tests/programs/storms.c -lsordino -ldl
    $compile -shared -fPIC -o "$root/vm/verified_plugin.so" tests/programs/verified_plugin.c -lsordino
    for library in $(LD_LIBRARY_PATH=$root/usr/lib ldd "$root"/usr/bin/* | grep -o '/[^ ]* (' | cut -d ' ' -f 1); do
        case $library in
        "$root"/*) ;;
        *) mkdir -p "$root${library%/*}" && cp --dereference "$library" "$root$library" ;;
        esac
    done
}

# Creates $vm/modules: npt's module, which init does not load, and the modules $2... of the kernel $1, in init's order.
# Modules that are built into the kernel are skipped.
make_modules() {
    tree=$vm/$1/lib/modules
    shift
    rm -rf "$vm/modules"
    mkdir -p "$vm/modules/vm/modules"
    [ ! -e "$built/sordino_npt.ko" ] || cp "$built/sordino_npt.ko" "$vm/modules/vm"
    number=0
    for name in "$@"; do
        number=$((number + 1))
        copy=$vm/modules/vm/modules/$number-$name.ko
        file=$(find "$tree" -name "$name.ko" -o -name "$name.ko.xz")
        case $file in
        *.xz) xz --decompress --stdout "$file" >"$copy" ;;
        *.ko) cp "$file" "$copy" ;;
        esac
    done
}

# Packs the directory $1 as an archive that a kernel unpacks at its start. Several archives may follow each other.
archive() {
    (cd "$1" && find . | cpio --quiet --create --format newc --owner 0:0)
}

# Seconds without console output, and seconds in all, after which a machine is given up. Emulated beside a build, it may
# be some ten times slower than alone, and so is its output.
silence=300 longest=7200

# Prints the lines on scenarios from the console $1.
scenarios_said() {
    tr -d '\r' <"$1/console" 2>/dev/null | grep '^scenario ' || true
}

# Shows the scenario lines of the machine with the results $1, and gives it up when it makes no progress: the reason
# goes to $1/given-up.
watch_machine() {
    size=0 silent=0 ran=0 shown=0
    while sleep 5; do
        now=$(stat --format %s "$1/console" 2>/dev/null || echo 0)
        ran=$((ran + 5)) silent=$((silent + 5))
        if [ "$now" != "$size" ]; then
            size=$now silent=0
            scenarios_said "$1" | tail -n +$((shown + 1)) | grep -v ': goes on' || true
            shown=$(scenarios_said "$1" | wc -l)
        fi
        if [ $silent -ge $silence ]; then
            echo "nothing new on its console for $silence s" >"$1/given-up"
        elif [ $ran -ge $longest ]; then
            echo "it was still at work after $longest s" >"$1/given-up"
        fi
        [ ! -e "$1/given-up" ] || { kill "$(cat "$1/pid")"; return; }
    done
}

# Prints why the machine with the results $1 did not finish, and its last scenario.
where_it_stopped() {
    why=$(cat "$1/given-up" 2>/dev/null || echo "it stopped")
    last=$(scenarios_said "$1" | tail -n 1)
    echo "the virtual machine did not come to its end: $why; the last it said: ${last:-nothing, for no scenario had begun}"
}

# Runs the kernel $1 with the file system $2 and the scenarios $4, with the parameters $5 on its command line, until the
# machine switches itself off, and unpacks its results to $3. The log of its console is $3/console.
boot() {
    command_line="console=ttyS0 quiet loglevel=5 panic=-1 $5 STORM_SEED=$seed SCENARIOS=$(echo "$4" | tr ' ' ,)"
    rm -rf "$3"
    mkdir -p "$3"
    truncate --size 1G "$3/disk"
    status=0
    watch_machine "$3" &
    watcher=$!
    qemu-system-x86_64 -pidfile "$3/pid" -accel tcg -cpu max -smp 2 -m 2G -nic none -no-reboot -display none -monitor none \
        -kernel "$vm/$1"/boot/vmlinuz-* -initrd "$2" -append "$command_line" \
        -drive "file=$3/disk,format=raw,if=virtio" -serial "file:$3/console" </dev/null &&
        tar --extract --file "$3/disk" --directory "$3" && [ -e "$3/dmesg" ] || status=$?
    kill $watcher 2>/dev/null || true
    wait $watcher 2>/dev/null || true
    rm "$3/disk"
    return $status
}
