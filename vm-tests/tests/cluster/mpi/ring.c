/* Every rank says where it is, a token goes round, and all agree on a sum. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, token = -1, mine, sum = 0;
    const char *node = getenv("SLURMD_NODENAME");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && !strcmp(argv[1], "abort") && rank == size - 1) MPI_Abort(MPI_COMM_WORLD, 3);
    if (argc > 1 && !strcmp(argv[1], "exit") && rank == size - 1) exit(7);
    if (argc > 1 && !strcmp(argv[1], "leave") && rank == size - 1) exit(0);
    if (argc > 1 && !strcmp(argv[1], "hang")) printf("up\n"), fflush(stdout), sleep(rank == size - 1 ? 100 : 0);
    if (rank == 0) {
        token = 0;
        if (size > 1) {
            MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else {
        MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token += rank;
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    }
    mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s: sum %d%s\n", rank, size, node ? node : "?", sum, rank ? "" : token == size * (size - 1) / 2 ? ", token ok" : ", token lost");
    MPI_Finalize();
    return 0;
}
