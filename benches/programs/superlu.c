/* A direct sparse solver at work: superlu CPU POINTS
 * Factorizes and solves Poisson's equation on a cube of POINTS^3 points (7-point stencil) with SuperLU, on one thread.
 * Prints the seconds of CPU time and the greatest error of the solution. */
#include "common.h"
#include <math.h>
#include <slu_ddefs.h>

/* Number of a point, or -1 outside of the cube. */
static int point(int points, int x, int y, int z)
{
    const int is_inside = x >= 0 && y >= 0 && z >= 0 && x < points && y < points && z < points;
    return is_inside ? (z * points + y) * points + x : -1;
}

/* Fills the columns of the matrix, with the sums of its rows as the right-hand side: the solution is 1 everywhere. */
static int fill(int points, double *values, int *rows, int *columns, double *sums)
{
    static const int offsets[7][3] = {
        {0, 0, -1}, {0, -1, 0}, {-1, 0, 0}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    int entries = 0, column = 0;

    for (int z = 0; z < points; z++)
        for (int y = 0; y < points; y++)
            for (int x = 0; x < points; x++, column++) {
                columns[column] = entries;
                for (int i = 0; i < 7; i++) {
                    const int row = point(points, x + offsets[i][0], y + offsets[i][1], z + offsets[i][2]);
                    if (row < 0)
                        continue;
                    values[entries] = row == column ? 6.0 : -1.0;
                    sums[row] += values[entries];
                    rows[entries++] = row;
                }
            }
    columns[column] = entries;
    return entries;
}

int main(int argc, char **argv)
{
    const int cpu = argc > 1 ? atoi(argv[1]) : 1, points = argc > 2 ? atoi(argv[2]) : 22, size = points * points * points;
    double *const values = doubleMalloc((size_t)size * 7), *const solution = doubleCalloc((size_t)size);
    int *const rows = intMalloc((size_t)size * 7), *const columns = intMalloc((size_t)size + 1);
    int *const by_row = intMalloc((size_t)size), *const by_column = intMalloc((size_t)size);
    const int entries = fill(points, values, rows, columns, solution);
    SuperMatrix a, b, lower, upper;
    superlu_options_t options;
    SuperLUStat_t statistics;
    double error = 0;
    int failure = 0;

    stay_on(cpu);
    dCreate_CompCol_Matrix(&a, size, size, entries, values, rows, columns, SLU_NC, SLU_D, SLU_GE);
    dCreate_Dense_Matrix(&b, size, 1, solution, size, SLU_DN, SLU_D, SLU_GE);
    set_default_options(&options);
    options.ColPerm = MMD_AT_PLUS_A;
    StatInit(&statistics);
    const double begin = cpu_seconds();
    dgssv(&options, &a, by_column, by_row, &lower, &upper, &b, &statistics, &failure);
    const double time = cpu_seconds() - begin;
    for (int i = 0; i < size; i++)
        error = fmax(error, fabs(solution[i] - 1.0));
    printf("%.6f %g\n", time, error);
    return failure != 0 || !(error < 1e-6);
}
