import java.util.Scanner;

public class Hello {
    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        for (int n = in.nextInt(); n > 0; n--) {
            System.out.println("Hello, " + in.next() + "!");
        }
    }
}
