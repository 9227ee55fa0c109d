package xregistry;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on S3, for several processes: a commit is a put that the store refuses if the object is there (If-None-Match).
 *
 * <p>Delta's own store for S3 keeps apart the writers of one process only. delta-rs commits by the same request.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {
  /** Makes the store, as Delta does. */
  public ConditionalLogStore(Configuration settings) {
    super(settings);
  }

  /** Writes lines; if the file must not be there and is, with other lines, this is an error that Delta knows. */
  public void write(Path path, Iterator lines, Boolean overwrite, Configuration settings) throws IOException {
    StringBuilder text = new StringBuilder();
    while (lines.hasNext()) {
      text.append((String) lines.next()).append('\n');
    }
    byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
    FileSystem files = path.getFileSystem(settings);
    FSDataOutputStreamBuilder builder = files.createFile(path);
    builder.recursive();
    builder.overwrite(true);
    if (!overwrite.booleanValue()) {
      builder.must("fs.option.create.conditional.overwrite", true);
    }
    try {
      FSDataOutputStream stream = (FSDataOutputStream) builder.build();
      try {
        stream.write(bytes);
      } finally {
        stream.close();
      }
    } catch (IOException refused) {
      byte[] held = overwrite.booleanValue() ? null : held(files, path);
      if (held == null) {
        throw refused;
      }
      if (!Arrays.equals(held, bytes)) { // else the store took it, and its answer was lost
        throw new FileAlreadyExistsException(path.toString());
      }
    }
  }

  /** Returns whether the store of a folder refuses a second put, and does not pass over the condition as older ones do. */
  public static boolean excludes(String folder, Configuration settings) throws IOException {
    Path path = new Path(folder, "_probe-" + UUID.randomUUID());
    ConditionalLogStore store = new ConditionalLogStore(settings);
    store.write(path, Collections.singletonList("first").iterator(), Boolean.FALSE, settings);
    try {
      store.write(path, Collections.singletonList("second").iterator(), Boolean.FALSE, settings);
      return false;
    } catch (FileAlreadyExistsException refused) {
      return true;
    } finally {
      path.getFileSystem(settings).delete(path, false);
    }
  }

  private static byte[] held(FileSystem files, Path path) throws IOException {
    try {
      FSDataInputStream stream = files.open(path);
      try {
        return stream.readAllBytes();
      } finally {
        stream.close();
      }
    } catch (FileNotFoundException missing) {
      return null;
    }
  }
}
