import java.util.ArrayList;
import java.util.List;

/** Keeps everything it makes until the heap is full. */
public class Heap {
    public static void main(String[] arguments) {
        List<int[]> kept = new ArrayList<>();
        while (kept.size() < 10_000) {
            kept.add(new int[1 << 20]);
        }
        System.out.println(kept.size());
    }
}
