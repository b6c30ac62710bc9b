# The kernel is PREEMPT_RT, and a program is recorded with it.
. /vm/recording.sh

cat /sys/kernel/realtime >realtime
begin recording "" calm --subbuf-size 256K --num-subbuf 4 --kernel sched,irq,irq_vectors
# The disk causes interrupts.
dd if=/dev/vda of=/dev/null count=1
sleep 1
end
ls /sys/kernel/tracing/instances >instances
