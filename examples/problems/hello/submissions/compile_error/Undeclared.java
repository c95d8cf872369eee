public class Undeclared {
    public static void main(String[] arguments) {
        System.out.println(greeting);
    }
}
