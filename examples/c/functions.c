/* A program whose functions are recorded without a line of its source about it.
 *
 *     cc -g -finstrument-functions functions.c -o functions $(pkg-config --libs sordino-functions)
 *     sordino record -- ./functions
 *     sordino query calls
 */
#include <stdio.h>
#include <stdlib.h>

static double matrix[100][100];

static void fill(int seed)
{
    for (int row = 0; row < 100; row++)
        for (int column = 0; column < 100; column++)
            matrix[row][column] = (row * 31 + column * 17 + seed) % 100;
}

static double sum_of_row(int row)
{
    double sum = 0;
    for (int column = 0; column < 100; column++)
        sum += matrix[row][column];
    return sum;
}

static double largest_row(void)
{
    double largest = 0;
    for (int row = 0; row < 100; row++)
        if (sum_of_row(row) > largest)
            largest = sum_of_row(row);
    return largest;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    double total = 0;
    for (int round = 0; round < rounds; round++) {
        fill(round);
        total += largest_row();
    }
    printf("%.0f\n", total);
    return 0;
}
