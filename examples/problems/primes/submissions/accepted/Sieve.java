import java.util.Scanner;

public class Sieve {
    static final int LIMIT = 2_000_000;

    public static void main(String[] arguments) {
        boolean[] composite = new boolean[LIMIT + 1];
        int[] count = new int[LIMIT + 1];
        for (int i = 2; i <= LIMIT; i++) {
            count[i] = count[i - 1] + (composite[i] ? 0 : 1);
            if (!composite[i]) {
                for (long j = (long) i * i; j <= LIMIT; j += i) {
                    composite[(int) j] = true;
                }
            }
        }
        Scanner in = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        for (int q = in.nextInt(); q > 0; q--) {
            out.append(count[in.nextInt()]).append('\n');
        }
        System.out.print(out);
    }
}
