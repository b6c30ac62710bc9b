# npt's loop with interrupts disabled: its module loads, measures and unloads. It is rejected before and after.
refused() {
    status=0
    sordino npt -a 1 --interrupts-off -d 100ms >/dev/null 2>"$1" || status=$?
    echo $status >>"$1"
}

said=$(dmesg | wc -l)
refused before
insmod /vm/sordino_npt.ko
sordino npt -a 1 --interrupts-off -d 500ms --json >measured 2>errors
sordino npt -a 0-1 --interrupts-off -l 1000 >text 2>>errors
# Numbers that the module rejects.
for bad in 0 20001 x; do
    echo $bad >/dev/sordino_npt 2>>bad && echo "took $bad" >>bad || true
done
rmmod sordino_npt
refused after
dmesg | tail -n +$((said + 1)) >kernel
