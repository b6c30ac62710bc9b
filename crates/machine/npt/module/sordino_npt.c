// SPDX-License-Identifier: GPL-2.0
/*
 * npt's loop with interrupts disabled on its CPU, which no program can do (iopl(2) no longer gives it that right).
 *
 * Each open of /dev/sordino_npt has figures of its own. Writing a number of microseconds measures for that time on the CPU
 * that the writer runs on; reading returns the figures so far:
 *
 *	loops N, cycles N, longest N, first N, last N, khz N	one a line
 *	bucket LOW COUNT					a line for each bucket that is not empty
 *
 * Buckets are those of src/histogram.rs: exact below 2^BITS cycles, BITS significant bits above.
 */
#include <linux/bitops.h>
#include <linux/fs.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/tsc.h>

#define BITS 10
#define LINEAR (1ULL << BITS)
#define BUCKETS (LINEAR + (64 - BITS) * (LINEAR / 2))

/* Longest time without interrupts, in microseconds. Threads and the timer tick wait as long; every watchdog of the
 * kernel's allows more. */
#define MOST_US 20000

struct notes {
	struct mutex lock;
	u64 loops, cycles, longest, first, last;
	u64 *histogram;
};

static u64 bucket_of(u64 value)
{
	const int shift = max(fls64(value) - BITS, 0);

	return shift * (LINEAR / 2) + (value >> shift);
}

static u64 least_of(u64 bucket)
{
	const u64 shift = bucket < LINEAR ? 0 : bucket / (LINEAR / 2) - 1;

	return (bucket - shift * (LINEAR / 2)) << shift;
}

static void measure(struct notes *notes, u64 limit)
{
	unsigned long flags;
	u64 first, last;

	local_irq_save(flags);
	first = last = rdtsc();
	while (last - first < limit) {
		const u64 now = rdtsc(), gap = now - last;

		last = now;
		notes->loops++;
		notes->histogram[bucket_of(gap)]++;
		if (gap > notes->longest)
			notes->longest = gap;
	}
	local_irq_restore(flags);
	if (!notes->first)
		notes->first = first;
	notes->last = last;
	notes->cycles += last - first;
}

static int npt_show(struct seq_file *file, void *unused)
{
	struct notes *notes = file->private;
	u64 bucket;

	mutex_lock(&notes->lock);
	seq_printf(file, "loops %llu\ncycles %llu\nlongest %llu\nfirst %llu\nlast %llu\nkhz %u\n", notes->loops,
		   notes->cycles, notes->longest, notes->first, notes->last, tsc_khz);
	for (bucket = 0; bucket < BUCKETS; bucket++)
		if (notes->histogram[bucket])
			seq_printf(file, "bucket %llu %llu\n", least_of(bucket), notes->histogram[bucket]);
	mutex_unlock(&notes->lock);
	return 0;
}

static int npt_open(struct inode *inode, struct file *file)
{
	struct notes *notes = kzalloc(sizeof(*notes), GFP_KERNEL);
	int error = -ENOMEM;

	if (!notes)
		return error;
	mutex_init(&notes->lock);
	notes->histogram = vzalloc(BUCKETS * sizeof(u64));
	/* misc_open() has set private_data to the device, and seq_open() warns unless it is NULL. */
	file->private_data = NULL;
	if (notes->histogram)
		error = single_open(file, npt_show, notes);
	if (error) {
		vfree(notes->histogram);
		kfree(notes);
	}
	return error;
}

static int npt_release(struct inode *inode, struct file *file)
{
	struct notes *notes = ((struct seq_file *)file->private_data)->private;

	vfree(notes->histogram);
	kfree(notes);
	return single_release(inode, file);
}

static ssize_t npt_write(struct file *file, const char __user *text, size_t length, loff_t *position)
{
	struct notes *notes = ((struct seq_file *)file->private_data)->private;
	unsigned int microseconds;
	const int error = kstrtouint_from_user(text, length, 10, &microseconds);

	if (error)
		return error;
	if (!microseconds || microseconds > MOST_US)
		return -ERANGE;
	if (mutex_lock_interruptible(&notes->lock))
		return -ERESTARTSYS;
	measure(notes, (u64)microseconds * tsc_khz / 1000);
	mutex_unlock(&notes->lock);
	return length;
}

static const struct file_operations npt_operations = {
	.owner = THIS_MODULE,
	.open = npt_open,
	.release = npt_release,
	.read = seq_read,
	.llseek = seq_lseek,
	.write = npt_write,
};

static struct miscdevice npt_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sordino_npt",
	.fops = &npt_operations,
	.mode = 0600,
};

module_misc_device(npt_device);

MODULE_DESCRIPTION("The Non-Preempt Test's loop with interrupts disabled");
MODULE_LICENSE("GPL");
